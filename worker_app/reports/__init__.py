"""Reports: what stands in the stores, told for a period of days. One template a file, pure: facts in, content and text out."""
