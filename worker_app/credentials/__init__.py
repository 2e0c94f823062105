"""Credentials: typed secrets of one host, from what a person gives to what a request is signed with, and back."""
