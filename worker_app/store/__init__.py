"""The stores: the one door to SQL. Each file holds the statements of one table's life; callers see values, never rows."""
