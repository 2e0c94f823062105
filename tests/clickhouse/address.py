"""Who may ask the front. Both words need quoting in an address, so that a client that forgets it is found out."""

USER = "dev@hops"
PASSWORD = "s/p:c#t 100%é"
