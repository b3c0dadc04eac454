module iolens.example/aistore

go 1.22

require iolens.example/iolens v0.0.0

replace iolens.example/iolens => ../../../go
