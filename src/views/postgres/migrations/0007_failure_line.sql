-- The line of the program that failed; 0: none, or recorded by an earlier version.
ALTER TABLE everfold_views.failure ADD COLUMN line integer NOT NULL DEFAULT 0;
