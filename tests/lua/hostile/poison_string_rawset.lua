-- expect: error readonly
-- attack: nor with rawset
rawset(string, "upper", print)
