package main

import (
	"errors"
	"slices"
	"strings"

	"sluice/configs"
	"sluice/web/pages"
)

func pageOptions(c configs.Pages) pages.Options {
	return pages.Options{
		Name: c.Name, Shop: c.Shop, Currency: c.Currency, Logo: c.Logo, Folder: c.Folder,
		Accent: c.Accent, Background: c.Background, Text: c.Text,
		AccentDark: c.AccentDark, BackgroundDark: c.BackgroundDark, TextDark: c.TextDark,
	}
}

// pageMistakes is what the pages find wrong with how they are to look. A key that has a
// mistake already is not told of twice.
func pageMistakes(cfg configs.Config, already configs.Mistakes) (configs.Mistakes, error) {
	if cfg.Role == configs.RoleOrders {
		return nil, nil
	}
	_, err := pages.New(pageOptions(cfg.Pages))
	found, ok := errors.AsType[pages.Mistakes](err)
	if err != nil && !ok {
		return nil, err
	}
	var out configs.Mistakes
	for _, m := range found {
		key := "pages." + m.Key
		if !slices.ContainsFunc(already, func(known configs.Mistake) bool { return known.Key == key || strings.HasPrefix(key, known.Key+".") }) {
			out = append(out, configs.Mistake{Key: key, Rule: m.Rule})
		}
	}
	return out, nil
}
