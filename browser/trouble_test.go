package browser

var troubles = map[string]func(world){}
