"""Proves that the replicas on all ranks are equal, or says where they differ."""
