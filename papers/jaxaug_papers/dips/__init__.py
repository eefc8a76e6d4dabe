"""The experiments of DiPS: paraphrase generators and classifiers trained on their output."""
