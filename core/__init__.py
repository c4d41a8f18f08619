"""Domain types shared by all other packages; imports none of them."""
