"""The scorer of the zoo: a small CLIP that tells how well a picture shows its caption."""
