"""Migrations: the numbered changes of each store's schema. Only `worker_app.migrate` runs them."""
