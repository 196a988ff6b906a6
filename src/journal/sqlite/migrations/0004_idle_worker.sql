-- A worker without work is listed as idle. Its heartbeat is long, so that it is seldom written.
ALTER TABLE worker ADD COLUMN idle INTEGER NOT NULL DEFAULT 0;
