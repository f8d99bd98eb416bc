"""Campaigns: one contract over many repositories, wave by wave. Pure, like the rules of runs and tasks."""
