"""Sync: dispatch, plan, batch, finish, rescue and outbox. Decisions stand here, their SQL in the store."""
