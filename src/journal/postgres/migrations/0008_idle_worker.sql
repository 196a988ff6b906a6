-- A worker without work is listed as idle. Its heartbeat is long, so that it is seldom written.
ALTER TABLE everfold.worker ADD COLUMN idle boolean NOT NULL DEFAULT false;
