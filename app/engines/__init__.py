"""What turns tokens into tokens: the protocol, the local engine, remote workers and fleets of them."""
