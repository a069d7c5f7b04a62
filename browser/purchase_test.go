package browser

var purchases = map[string]func(world){}
