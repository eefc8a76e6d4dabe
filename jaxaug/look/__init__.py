"""Reports for people: the failures of a run, and the list of tasks."""
