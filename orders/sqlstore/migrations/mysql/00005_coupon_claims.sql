-- Discount and line are the coupon's: whoever uses a code must not lock, and need not
-- read, the one row that everybody who claims is waiting for.
-- The visitor is bytes: text takes a name with a space behind it for the same name.

-- +goose Up
CREATE TABLE IF NOT EXISTS coupon_claims (
    coupon_id  BIGINT         NOT NULL,
    visitor    VARBINARY(255) NOT NULL,
    code       VARCHAR(64)    NOT NULL COMMENT 'whoever knows it may use it, once',
    discount   BIGINT         NOT NULL,
    line       VARCHAR(32)    NOT NULL,
    order_id   VARCHAR(36)    NULL COMMENT 'the order that uses it',
    claimed_at BIGINT         NOT NULL COMMENT 'Unix ms',
    PRIMARY KEY (coupon_id, visitor),
    UNIQUE KEY coupon_claims_code (code)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS coupon_claims;
