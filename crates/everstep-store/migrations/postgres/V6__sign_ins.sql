-- The key with which a one-time link was made. A key that such a link has created belongs to one browser: it expires,
-- and is deleted a day later. The previous release leaves the column null.

alter table api_keys
    add column maker uuid;
