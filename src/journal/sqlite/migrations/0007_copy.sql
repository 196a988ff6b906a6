-- A journal that was restored from a backup knows it: its publishers wait until it is adopted.
ALTER TABLE state ADD COLUMN copied INTEGER NOT NULL DEFAULT 0; -- 0, or when it became a copy
