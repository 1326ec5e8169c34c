"""Doubles that ship with the product, so that users can try their own set-up without
paying for it.
"""
