"""Deep storage: where segment files lie for good, behind one port with several implementations."""
