package orders

import (
	"errors"
	"strings"
	"testing"
)

func TestCartRules(t *testing.T) {
	s, err := NewService(&fakeStore{}, DefaultOptions(), discard)
	if err != nil {
		t.Fatal(err)
	}
	many := func(n int) (cart []CartItem) {
		for i := range n {
			cart = append(cart, CartItem{ProductID: int64(i + 1), Quantity: 1})
		}
		return cart
	}
	for name, c := range map[string]struct {
		cart []CartItem
		says string // "" for a good one
	}{
		"nothing":       {nil, "no items"},
		"one":           {oneLamp, ""},
		"the most":      {many(MaxItems), ""},
		"too many":      {many(MaxItems + 1), "at most 100"},
		"none of it":    {[]CartItem{{1, 0}}, "items[0]: quantity"},
		"less":          {[]CartItem{{1, 1}, {2, -5}}, "items[1]: quantity"},
		"most of it":    {[]CartItem{{1, MaxQuantity}}, ""},
		"too much":      {[]CartItem{{1, MaxQuantity + 1}}, "between 1 and 1000"},
		"twice":         {[]CartItem{{1, 1}, {2, 1}, {1, 2}}, "items[2]: product 1"},
		"no product":    {[]CartItem{{0, 1}}, "product_id"},
		"below product": {[]CartItem{{-7, 1}}, "product_id"},
	} {
		b := someone
		b.TokenID = name
		_, _, err := s.Place(t.Context(), Request{Buyer: b, Cart: c.cart})
		if c.says == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v does not say %q", name, err, c.says)
		}
		if _, err := s.Repeat(t.Context(), Request{Buyer: b, Cart: c.cart}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s, repeated: %v", name, err)
		}
	}
	for _, b := range []Buyer{{}, {TokenID: strings.Repeat("x", 129)}, {TokenID: "t", Visitor: "\xff"}} {
		if _, _, err := s.Place(t.Context(), Request{Buyer: b, Cart: oneLamp}); !errors.Is(err, ErrInvalid) {
			t.Errorf("buyer %+v: %v", b, err)
		}
	}
}

func TestProductRules(t *testing.T) {
	s, err := NewService(&fakeStore{}, DefaultOptions(), discard)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		product Product
		says    string // "" for a good one
	}{
		"plain":          {Product{Name: "Lamp"}, ""},
		"everything":     {Product{Name: "Lamp", Brand: "B", Price: MaxPrice, Stock: MaxStock, ImageURL: "https://x/y.png", Line: "vip-1"}, ""},
		"data image":     {Product{Name: "Lamp", ImageURL: "data:image/png;base64,AA=="}, ""},
		"path":           {Product{Name: "Lamp", ImageURL: "/x.png"}, ""},
		"no name":        {Product{Name: " \t"}, "name is missing"},
		"long name":      {Product{Name: strings.Repeat("é", 101)}, "name must be"},
		"broken name":    {Product{Name: "a\xff"}, "name must be"},
		"long brand":     {Product{Name: "Lamp", Brand: strings.Repeat("b", 201)}, "brand"},
		"negative price": {Product{Name: "Lamp", Price: -1}, "price"},
		"high price":     {Product{Name: "Lamp", Price: MaxPrice + 1}, "price"},
		"negative stock": {Product{Name: "Lamp", Stock: -1}, "stock"},
		"high stock":     {Product{Name: "Lamp", Stock: MaxStock + 1}, "stock"},
		"script":         {Product{Name: "Lamp", ImageURL: "javascript:alert(1)"}, "image_url"},
		"data page":      {Product{Name: "Lamp", ImageURL: "data:text/html,x"}, "image_url"},
		"long image":     {Product{Name: "Lamp", ImageURL: "/" + strings.Repeat("x", MaxImageURL)}, "image_url"},
		"odd line":       {Product{Name: "Lamp", Line: "VIP"}, "line"},
		"long line":      {Product{Name: "Lamp", Line: strings.Repeat("l", 33)}, "line"},
		"two mistakes":   {Product{Name: "", Price: -1}, "name is missing\nprice"},
	} {
		_, err := s.AddProduct(t.Context(), c.product)
		if c.says == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c.says != "" && (!errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v does not say %q", name, err, c.says)
		}
	}
}

func TestCouponRules(t *testing.T) {
	s, err := NewService(&fakeStore{}, DefaultOptions(), discard)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		coupon Coupon
		says   string // "" for a good one
	}{
		"plain":             {Coupon{Name: "A tenth off", Quantity: 1}, ""},
		"everything":        {Coupon{Name: "All off", Quantity: MaxCoupons, Discount: MaxPrice, Line: "vip-1"}, ""},
		"no name":           {Coupon{Quantity: 1}, "name is missing"},
		"long name":         {Coupon{Name: strings.Repeat("é", 101), Quantity: 1}, "name must be"},
		"none":              {Coupon{Name: "A tenth off"}, "quantity"},
		"too many":          {Coupon{Name: "A tenth off", Quantity: MaxCoupons + 1}, "quantity"},
		"negative discount": {Coupon{Name: "A tenth off", Quantity: 1, Discount: -1}, "discount"},
		"high discount":     {Coupon{Name: "A tenth off", Quantity: 1, Discount: MaxPrice + 1}, "discount"},
		"odd line":          {Coupon{Name: "A tenth off", Quantity: 1, Line: "a line"}, "line"},
	} {
		_, err := s.AddCoupon(t.Context(), c.coupon)
		if c.says == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c.says != "" && (!errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v does not say %q", name, err, c.says)
		}
	}
}

func TestOptionsRules(t *testing.T) {
	_, err := NewService(&fakeStore{}, Options{PayWithin: -1, TestDelay: -1}, discard)
	for _, word := range []string{"workers", "deadline", "pay_within", "test_delay"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s is not named by: %v", word, err)
		}
	}
}
