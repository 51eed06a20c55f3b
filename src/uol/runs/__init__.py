"""Runs: one network trained and tested, with everything it leaves in its folder."""
