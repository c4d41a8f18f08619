"""HTTP in, HTTP out: checks requests, has them placed, submits jobs, shows what became of them."""
