"""Generated from proto/broker/metadata/etcdpb (`make proto`). Rule: never edited by hand."""
