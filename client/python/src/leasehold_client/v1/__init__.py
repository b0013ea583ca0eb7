"""Messages of Leasehold's wire API, generated from `proto/`; `generate.py` of the source tree writes them."""
