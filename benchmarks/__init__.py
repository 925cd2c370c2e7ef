"""How fast the queue is, as ratios to what PostgreSQL can do by itself: see README.md here.

python -m benchmarks claim
"""
