-- +goose Up
CREATE TABLE coupon_claims (
    coupon_id  INTEGER NOT NULL,
    visitor    TEXT    NOT NULL,
    code       TEXT    NOT NULL UNIQUE,
    discount   INTEGER NOT NULL,
    line       TEXT    NOT NULL,
    order_id   TEXT    NULL,
    claimed_at INTEGER NOT NULL,
    PRIMARY KEY (coupon_id, visitor)
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE coupon_claims;
