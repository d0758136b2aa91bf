"""The main job: propose candidates, judge them, fit networks, report."""
