-- +goose Up
ALTER TABLE orders ADD COLUMN coupon_code TEXT NOT NULL DEFAULT '';
ALTER TABLE orders ADD COLUMN paid_at INTEGER NULL;
ALTER TABLE orders ADD COLUMN payment_attempt INTEGER NOT NULL DEFAULT 0;
ALTER TABLE orders ADD COLUMN payment_method TEXT NOT NULL DEFAULT '';
ALTER TABLE orders ADD COLUMN payment_asked_at INTEGER NULL;
ALTER TABLE orders ADD COLUMN payment_reference TEXT NOT NULL DEFAULT '';
CREATE INDEX orders_unsettled ON orders (payment_asked_at) WHERE state = 'payment_unknown';

-- +goose Down
DROP INDEX orders_unsettled;
ALTER TABLE orders DROP COLUMN payment_reference;
ALTER TABLE orders DROP COLUMN payment_asked_at;
ALTER TABLE orders DROP COLUMN payment_method;
ALTER TABLE orders DROP COLUMN payment_attempt;
ALTER TABLE orders DROP COLUMN paid_at;
ALTER TABLE orders DROP COLUMN coupon_code;
