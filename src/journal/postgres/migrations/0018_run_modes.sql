-- Two modes that no run had are removed: verify was 4 and is 2, seed was 5 and is 3.
UPDATE everfold.run SET mode = mode - 2 WHERE mode >= 4;
