package orders

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// MaxCoupons is how many of one coupon there are at most.
const MaxCoupons = 1_000_000_000

// Limits on a product. With [MaxItems] and [MaxQuantity] no total can overflow:
// 100 × 1,000 × 10¹² < 2⁶³.
const (
	MaxPrice    = 1_000_000_000_000
	MaxStock    = 1_000_000_000_000
	MaxName     = 200  // bytes, of the name and of the brand
	MaxImageURL = 2000 // bytes
)

// Lengths that the store has room for.
const (
	maxTokenID = 128 // bytes
	maxVisitor = 255
	maxCode    = 64
)

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}

func validateCart(cart []CartItem) error {
	if len(cart) == 0 {
		return invalid("the order has no items")
	}
	if len(cart) > MaxItems {
		return invalid("an order has at most %d items, not %d", MaxItems, len(cart))
	}
	seen := make(map[int64]struct{}, len(cart))
	for i, item := range cart {
		if item.ProductID < 1 {
			return invalid("items[%d]: product_id must be at least 1, not %d", i, item.ProductID)
		}
		if item.Quantity < 1 || item.Quantity > MaxQuantity {
			return invalid("items[%d]: quantity must be between 1 and %d, not %d", i, MaxQuantity, item.Quantity)
		}
		if _, twice := seen[item.ProductID]; twice {
			return invalid("items[%d]: product %d is in the order twice", i, item.ProductID)
		}
		seen[item.ProductID] = struct{}{}
	}
	return nil
}

func (r Request) validate() error {
	var coupon error
	if len(r.Coupon) > maxCode || !utf8.ValidString(r.Coupon) {
		coupon = invalid("the coupon code must be UTF-8 of at most %d bytes", maxCode)
	}
	return errors.Join(r.Buyer.validate(), validateCart(r.Cart), coupon)
}

func (b Buyer) validate() error {
	if b.TokenID == "" || len(b.TokenID) > maxTokenID {
		return invalid("the token id must have 1 to %d bytes", maxTokenID)
	}
	if len(b.Visitor) > maxVisitor || !utf8.ValidString(b.Visitor) {
		return invalid("the visitor id must be UTF-8 of at most %d bytes", maxVisitor)
	}
	return nil
}

// validateClaim also refuses who has no name: they would all be one visitor.
func validateClaim(b Buyer) error {
	if b.Visitor == "" {
		return invalid("a claim needs a visitor")
	}
	return b.validate()
}

var lineID = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)

func (p Product) validate() error {
	var r rules
	r.name(p.Name)
	r.text("brand", p.Brand, MaxName)
	r.must(p.Price >= 0 && p.Price <= MaxPrice, "price must be between 0 and %d", int64(MaxPrice))
	r.must(p.Stock >= 0 && p.Stock <= MaxStock, "stock must be between 0 and %d", int64(MaxStock))
	r.text("image_url", p.ImageURL, MaxImageURL)
	r.must(imageURL(p.ImageURL), "image_url must begin with http://, https://, / or data:image/")
	r.line(p.Line)
	return r.broken()
}

func (c Coupon) validate() error {
	var r rules
	r.name(c.Name)
	r.must(c.Quantity >= 1 && c.Quantity <= MaxCoupons, "quantity must be between 1 and %d", MaxCoupons)
	r.must(c.Discount >= 0 && c.Discount <= MaxPrice, "discount must be between 0 and %d", int64(MaxPrice))
	r.line(c.Line)
	return r.broken()
}

// rules are those that something breaks.
type rules []error

func (r *rules) must(ok bool, format string, args ...any) {
	if !ok {
		*r = append(*r, fmt.Errorf(format, args...))
	}
}

func (r *rules) text(field, s string, most int) {
	r.must(len(s) <= most && utf8.ValidString(s), "%s must be UTF-8 of at most %d bytes", field, most)
}

func (r *rules) name(s string) {
	r.must(strings.TrimSpace(s) != "", "name is missing")
	r.text("name", s, MaxName)
}

func (r *rules) line(id string) {
	r.must(id == "" || lineID.MatchString(id), "line must be 1 to 32 of a-z, 0-9 and -")
}

func (r rules) broken() error {
	if len(r) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrInvalid, errors.Join(r...))
}

// imageURL keeps out what a page would run: javascript: and the like.
func imageURL(s string) bool {
	if s == "" {
		return true
	}
	for _, prefix := range []string{"http://", "https://", "/", "data:image/"} {
		if strings.HasPrefix(s, prefix) {
			return true
		}
	}
	return false
}

// Means tells whether the request asks for what the order is of: the same
// quantities of the same products, in any order, with the same coupon.
func (o Order) Means(r Request) bool {
	ordered := make([]CartItem, len(o.Items))
	for i, item := range o.Items {
		ordered[i] = CartItem{ProductID: item.ProductID, Quantity: item.Quantity}
	}
	return Request{Cart: ordered, Coupon: o.Coupon}.means(r)
}

func (r Request) means(other Request) bool {
	return r.Coupon == other.Coupon && sameItems(r.Cart, other.Cart)
}

// sameItems compares carts that keep the rules: no product is in one twice.
func sameItems(a, b []CartItem) bool {
	if len(a) != len(b) {
		return false
	}
	quantity := make(map[int64]int64, len(a))
	for _, item := range a {
		quantity[item.ProductID] = item.Quantity
	}
	for _, item := range b {
		if quantity[item.ProductID] != item.Quantity {
			return false
		}
	}
	return true
}
