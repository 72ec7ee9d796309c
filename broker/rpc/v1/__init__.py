"""Messages between components, made from proto/broker/rpc/v1 by `make proto`. Rule: never edited by hand."""
