module iolens.example/iolens

go 1.22
