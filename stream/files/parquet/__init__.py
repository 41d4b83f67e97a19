"""Reads Parquet files as rows, and writes the rows that the filter lets through. Only here pyarrow is known."""
