"""Providers: how each kind of source is read. A provider knows its own rules and never another provider."""
