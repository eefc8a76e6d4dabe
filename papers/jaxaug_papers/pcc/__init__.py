"""The experiments of PCC: few-shot classification and persona dialogue."""
