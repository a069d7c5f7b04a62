package browser

var operators = map[string]func(world){}
