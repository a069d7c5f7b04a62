package orders

// Contract of Service (to be implemented in this file):
//
// type Options struct { Workers, Backlog int; Deadline, PayWithin, FollowupTTL time.Duration; ... } with DefaultOptions, Validate
// func NewService(store Store, opts Options, log *slog.Logger) (*Service, error)
// func (s *Service) Run(ctx context.Context) error            // pool workers, catalog refresh, unpaid sweeper; returns when ctx ends and everything drained
// func (s *Service) OnCommitted(fn func(Buyer))               // set before Run: called after a NEW order's commit; must not block
// func (s *Service) Place(ctx, Buyer, []CartItem) (Order, bool, error)   // validates the cart (ErrInvalid), passes through the pool
// func (s *Service) Repeat(ctx, Buyer, []CartItem) (Order, error)        // for a token that may order nothing new any more (expired, earlier epoch): the order it made, if the cart means the same; ErrTokenSpent if other; ErrOrderNotFound if none
// func (s *Service) Order(ctx, Buyer, id string) (Order, error)          // ErrOrderOfAnother when made with another token
// func (s *Service) Products() []Product / Product(id) (Product, error)  // snapshot at most a second old; ErrDatabase before the first read
// func (s *Service) AddProduct(ctx, Product) (int64, error)              // validates; refreshes the snapshot
// func (s *Service) Summary(ctx) (Summary, error)
// func (s *Service) Ready(ctx) error
// func (s *Service) SetTestDelay(time.Duration) error ; func (s *Service) TestDelay() (d time.Duration, changeable bool)
// func (s *Service) PoolStats() PoolStats
