"""Which data a model sees at which step: schedules and the SeqIO seam."""
