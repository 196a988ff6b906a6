-- The line of the program that failed; 0: none, or recorded by an earlier version.
ALTER TABLE failure ADD COLUMN line INTEGER NOT NULL DEFAULT 0;
