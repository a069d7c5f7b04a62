package main

import (
	"context"
	"fmt"

	"sluice/orders"
)

// demoProducts fill the embedded shop at its first start, so that there is
// something to click on.
var demoProducts = []orders.Product{
	{Name: "Opening night, front row", Brand: "Harbour Hall", Price: 14900, Stock: 200, ImageURL: "/assets/products/ticket.svg"},
	{Name: "Runner One, first edition", Brand: "Northpace", Price: 17900, Stock: 500, ImageURL: "/assets/products/sneaker.svg"},
	{Name: "Sixty-key keyboard", Brand: "Clackworks", Price: 12900, Stock: 1000, ImageURL: "/assets/products/keyboard.svg"},
	{Name: "Enamel mug", Brand: "Campfire", Price: 1900, Stock: 5000, ImageURL: "/assets/products/mug.svg"},
	{Name: "Low Tide, vinyl LP", Brand: "Saltwater Records", Price: 2900, Stock: 300, ImageURL: "/assets/products/record.svg"},
	{Name: "Night train, upper berth", Brand: "Boreal Rail", Price: 8900, Stock: 60, ImageURL: "/assets/products/train.svg"},
	{Name: "Field camera 35, hand-built", Brand: "Halide & Daughters", Price: 64900, Stock: 12, ImageURL: "/assets/products/camera.svg"},
	{Name: "Monstera from a cutting", Brand: "Glasshouse Lane", Price: 3400, Stock: 150, ImageURL: "/assets/products/plant.svg"},
}

var demoCoupon = orders.Coupon{Name: "First hundred", Quantity: 100, Discount: 500}

// fillDemo adds products and a coupon to a database that has no products.
func fillDemo(ctx context.Context, store orders.Store) error {
	there, err := store.Products(ctx)
	if err != nil {
		return fmt.Errorf("looking for products: %w", err)
	}
	if len(there) > 0 {
		return nil
	}
	for _, p := range demoProducts {
		if _, err := store.AddProduct(ctx, p); err != nil {
			return fmt.Errorf("adding the demo product %q: %w", p.Name, err)
		}
	}
	if _, err := store.AddCoupon(ctx, demoCoupon); err != nil {
		return fmt.Errorf("adding the demo coupon: %w", err)
	}
	return nil
}
