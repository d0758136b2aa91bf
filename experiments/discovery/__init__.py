"""How often the verdict of `symshare discover` is right, on data whose symmetries are derived."""
