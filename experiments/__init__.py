"""The paper's tables, figures and toy problems as configurations, and what runs them."""
