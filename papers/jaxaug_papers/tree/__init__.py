"""The experiments on schema augmentation: grids, tables and readings."""
