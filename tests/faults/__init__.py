"""What goes wrong on a starved machine: `make faults` tries all of it, the tests here the quick part."""
