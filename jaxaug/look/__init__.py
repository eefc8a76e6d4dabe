"""What a person looks at: where a run fails, which tasks there are."""
