package web

import (
	"context"
	"fmt"
	"strconv"

	"github.com/gofiber/fiber/v2"

	"sluice/orders"
)

type productJSON struct {
	ProductID int64   `json:"product_id"`
	Name      string  `json:"name"`
	Brand     string  `json:"brand"`
	Price     int64   `json:"price"`
	Stock     int64   `json:"stock"`
	ImageURL  string  `json:"image_url"`
	Line      *string `json:"line"` // null: visitors of every line may buy it
}

func product(p orders.Product) productJSON {
	return productJSON{p.ID, p.Name, p.Brand, p.Price, p.Stock, p.ImageURL, optional(p.Line)}
}

// products lists what is for sale, at most a second old: a crowd that browses
// never reaches the database.
func (s *Server) products(c *fiber.Ctx) error {
	list, err := s.cfg.Orders.Products()
	if err != nil {
		return fmt.Errorf("web: listing products: %w", err)
	}
	out := struct {
		Products []productJSON `json:"products"`
	}{make([]productJSON, len(list))}
	for i, p := range list {
		out.Products[i] = product(p)
	}
	c.Set(fiber.HeaderCacheControl, publicCache)
	return reply(c, fiber.StatusOK, out)
}

func (s *Server) product(c *fiber.Ctx) error {
	id, err := strconv.ParseInt(c.Params("id"), 10, 64)
	if err != nil {
		return orders.ErrProductNotFound
	}
	p, err := s.cfg.Orders.Product(id)
	if err != nil {
		return fmt.Errorf("web: finding a product: %w", err)
	}
	c.Set(fiber.HeaderCacheControl, publicCache)
	return reply(c, fiber.StatusOK, product(p))
}

type productRequest struct {
	Name     string `json:"name"`
	Brand    string `json:"brand"`
	Price    int64  `json:"price"`
	Stock    int64  `json:"stock"`
	ImageURL string `json:"image_url"`
	Line     string `json:"line"`
}

func (s *Server) addProduct(c *fiber.Ctx) error {
	var req productRequest
	if err := decode(c, &req); err != nil {
		return err
	}
	if err := s.knownLine(req.Line); err != nil {
		return err
	}
	id, err := s.cfg.Orders.AddProduct(context.Background(), orders.Product{
		Name: req.Name, Brand: req.Brand, Price: req.Price, Stock: req.Stock, ImageURL: req.ImageURL, Line: req.Line,
	})
	if err != nil {
		return fmt.Errorf("web: adding a product: %w", err)
	}
	s.note(c, req.Line, "add_product", "%d: %q, price %d, stock %d", id, clip(req.Name, maxQuoted), req.Price, req.Stock)
	return reply(c, fiber.StatusCreated, struct {
		ProductID int64 `json:"product_id"`
	}{id})
}

// knownLine refuses what would belong to a line that is not there; empty is none.
func (s *Server) knownLine(id string) error {
	if id != "" && s.lines.get(id) == nil {
		return explain(errInvalidRequest, "There is no line of this name.")
	}
	return nil
}
