-- MySQL has no ADD COLUMN IF NOT EXISTS, and a crash between the change and the note
-- that it was made must not stop the next start.

-- +goose Up
SET @change = IF((SELECT COUNT(*) FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'orders' AND column_name = 'coupon_code') > 0,
    'DO 0',
    'ALTER TABLE orders
        ADD COLUMN coupon_code       VARCHAR(64)  NOT NULL DEFAULT '''' COMMENT ''empty: none'',
        ADD COLUMN paid_at           BIGINT       NULL COMMENT ''Unix ms'',
        ADD COLUMN payment_attempt   INT          NOT NULL DEFAULT 0,
        ADD COLUMN payment_method    VARCHAR(64)  NOT NULL DEFAULT '''',
        ADD COLUMN payment_asked_at  BIGINT       NULL COMMENT ''Unix ms; when the provider was last asked'',
        ADD COLUMN payment_reference VARCHAR(255) NOT NULL DEFAULT '''' COMMENT ''what the provider calls it'',
        ADD KEY orders_unsettled (state, payment_asked_at)');
PREPARE change_orders FROM @change;
EXECUTE change_orders;
DEALLOCATE PREPARE change_orders;

-- +goose Down
ALTER TABLE orders
    DROP KEY orders_unsettled,
    DROP COLUMN coupon_code, DROP COLUMN paid_at, DROP COLUMN payment_attempt,
    DROP COLUMN payment_method, DROP COLUMN payment_asked_at, DROP COLUMN payment_reference;
